#!/bin/bash
set -e
cd /app
cat memo.txt
echo guitar > file.txt
