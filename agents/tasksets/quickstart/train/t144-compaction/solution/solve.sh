#!/bin/bash
set -e
cd /app
echo lemon > index.txt
echo plate > notes.txt
echo 99 > key.txt
