#!/bin/bash
set -e
cd /app
cat note.txt
echo forest > key.txt
