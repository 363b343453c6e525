#!/bin/bash
set -e
cd /app
echo planet > start.txt
echo compass > item.txt
echo 65 > temp.txt
