#!/bin/bash
set -e
cd /app
cat note.txt
echo fish > memo.txt
