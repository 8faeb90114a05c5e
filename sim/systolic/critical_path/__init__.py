"""Why a run takes its cycles: what each instruction waited for, the critical path, and slack."""
