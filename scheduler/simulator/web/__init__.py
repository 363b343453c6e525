"""Read side of saved simulations and what-ifs for pages and REST."""
