#!/bin/bash
set -e
cd /app
echo shark > key.txt
echo whale > file.txt
echo bottle > note.txt
