#!/bin/bash
set -e
cd /app
echo bottle > temp.txt
echo gentle > list.txt
echo smart > data.txt
