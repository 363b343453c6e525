#!/bin/bash
set -e
cd /app
echo eagle > memo.txt
echo robot > note.txt
echo 61 > copy.txt
