#!/bin/bash
set -e
cd /app
echo eagle > temp.txt
