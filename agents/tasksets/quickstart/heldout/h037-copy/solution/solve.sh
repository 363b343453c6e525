#!/bin/bash
set -e
cd /app
cp main.txt copy.txt
echo blue > info.txt
