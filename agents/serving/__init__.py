"""What every HTTP server of ours does about clients that are slow, idle or many. Loads no framework but uvicorn."""
