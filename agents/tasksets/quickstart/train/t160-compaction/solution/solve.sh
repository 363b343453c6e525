#!/bin/bash
set -e
cd /app
echo copper > note.txt
echo ghost > memo.txt
echo 57 > total.txt
