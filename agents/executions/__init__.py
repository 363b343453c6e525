"""What a worker does with executions: lease, run, evaluate, finish (docs/architecture.md "Life of an execution")."""
