#!/bin/bash
set -e
cd /app
echo cheese > log.txt
echo tower > test.txt
echo yellow > note.txt
