#!/bin/bash
set -e
cd /app
echo warm > report.txt
echo 29 > text.txt
echo knight > note.txt
