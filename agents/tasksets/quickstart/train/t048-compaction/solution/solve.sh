#!/bin/bash
set -e
cd /app
echo cherry > main.txt
echo teacher > value.txt
echo 41 > list.txt
