#!/bin/bash
set -e
cd /app
cat config.txt
echo 60 > copy.txt
