"""What a worker does with executions: lease, run, evaluate, finish (architecture.md "Life of an execution")."""
