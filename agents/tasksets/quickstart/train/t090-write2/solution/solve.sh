#!/bin/bash
set -e
cd /app
echo 24 > score.txt
echo mango > file.txt
