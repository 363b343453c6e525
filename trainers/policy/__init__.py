"""The tiny policy of the quickstart preset: how it is built, warmed up and exported."""
