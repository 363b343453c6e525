#!/bin/bash
set -e
cd /app
cat index.txt
echo stone > temp.txt
