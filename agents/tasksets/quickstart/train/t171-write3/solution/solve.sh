#!/bin/bash
set -e
cd /app
echo 79 > temp.txt
echo pencil > data.txt
echo sun > main.txt
