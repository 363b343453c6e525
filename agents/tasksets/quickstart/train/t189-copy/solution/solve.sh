#!/bin/bash
set -e
cd /app
cp item.txt value.txt
echo wood > main.txt
