#!/bin/bash
set -e
cd /app
cp log.txt memo.txt
echo 34 > note.txt
