#!/bin/bash
set -e
cd /app
cat memo.txt
echo warm > list.txt
