#!/bin/bash
set -e
cd /app
echo whale > copy.txt
echo apple > file.txt
