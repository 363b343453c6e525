#!/bin/bash
set -e
cd /app
echo blanket > index.txt
echo ghost > record.txt
echo 60 > text.txt
