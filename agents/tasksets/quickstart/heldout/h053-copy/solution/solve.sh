#!/bin/bash
set -e
cd /app
cp start.txt temp.txt
echo lion > list.txt
