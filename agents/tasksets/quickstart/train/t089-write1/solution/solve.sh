#!/bin/bash
set -e
cd /app
echo 97 > main.txt
