#!/bin/bash
set -e
cd /app
echo brush > test.txt
echo cat > result.txt
