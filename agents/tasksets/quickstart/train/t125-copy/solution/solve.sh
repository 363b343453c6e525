#!/bin/bash
set -e
cd /app
cp file.txt final.txt
echo stone > key.txt
