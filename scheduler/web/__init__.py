"""Read side of the `scheduler` app for pages, REST and push."""
