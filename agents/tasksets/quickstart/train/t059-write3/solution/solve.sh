#!/bin/bash
set -e
cd /app
echo ghost > value.txt
echo wolf > page.txt
echo cat > notes.txt
