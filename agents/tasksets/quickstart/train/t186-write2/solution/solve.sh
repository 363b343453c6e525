#!/bin/bash
set -e
cd /app
echo 94 > memo.txt
echo 54 > record.txt
