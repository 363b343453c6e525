#!/bin/bash
set -e
cd /app
echo piano > note.txt
echo whale > index.txt
echo bread > key.txt
