"""What agents did: projects, task sets, runs, groups, executions, calls, trees, events."""
