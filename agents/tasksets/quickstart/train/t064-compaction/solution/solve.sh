#!/bin/bash
set -e
cd /app
echo boat > info.txt
echo 96 > note.txt
echo 51 > memo.txt
