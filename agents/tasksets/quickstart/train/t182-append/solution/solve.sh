#!/bin/bash
set -e
cd /app
echo square >> temp.txt
echo cheese > main.txt
