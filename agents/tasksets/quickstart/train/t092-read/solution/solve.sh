#!/bin/bash
set -e
cd /app
cat result.txt
echo sharp > value.txt
