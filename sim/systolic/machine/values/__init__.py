"""What the lanes compute: functions of arrays, without time. Shared by both engines."""
