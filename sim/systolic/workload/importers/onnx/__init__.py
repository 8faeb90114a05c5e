"""The reader of ONNX files: protobuf messages, and a row for each operator."""
