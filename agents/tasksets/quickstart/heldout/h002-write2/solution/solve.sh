#!/bin/bash
set -e
cd /app
echo copper > start.txt
echo pencil > final.txt
