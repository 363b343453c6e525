"""Read side of the `trainers` app for pages, REST and push."""
