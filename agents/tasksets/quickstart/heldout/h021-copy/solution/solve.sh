#!/bin/bash
set -e
cd /app
cp value.txt list.txt
echo red > names.txt
