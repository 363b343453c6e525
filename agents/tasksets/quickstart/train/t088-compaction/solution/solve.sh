#!/bin/bash
set -e
cd /app
echo square > note.txt
echo cube > names.txt
echo ghost > test.txt
