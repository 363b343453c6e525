#!/bin/bash
set -e
cd /app
cp draft.txt copy.txt
echo 58 > out.txt
