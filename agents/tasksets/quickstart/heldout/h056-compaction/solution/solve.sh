#!/bin/bash
set -e
cd /app
echo museum > notes.txt
echo camera > key.txt
echo 38 > memo.txt
