#!/bin/bash
set -e
cd /app
cat copy.txt
echo gold > main.txt
