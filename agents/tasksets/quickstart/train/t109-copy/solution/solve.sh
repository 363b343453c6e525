#!/bin/bash
set -e
cd /app
cp record.txt note.txt
echo 25 > temp.txt
