#!/bin/bash
set -e
cd /app
cp note.txt out.txt
echo stone > data.txt
