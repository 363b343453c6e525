#!/bin/bash
set -e
cd /app
cat config.txt
echo 31 > text.txt
