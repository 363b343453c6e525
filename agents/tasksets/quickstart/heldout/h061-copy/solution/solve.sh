#!/bin/bash
set -e
cd /app
cp index.txt score.txt
echo iron > key.txt
